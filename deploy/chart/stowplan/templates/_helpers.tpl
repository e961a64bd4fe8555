{{- define "stowplan.name" -}}
{{- .Values.fullnameOverride | default .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- end -}}

{{- define "stowplan.selector" -}}
app.kubernetes.io/name: stowplan
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "stowplan.labels" -}}
{{ include "stowplan.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "stowplan.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "stowplan.name" .) -}}
{{- else -}}
{{- required "serviceAccount.name: name the account, or let the chart create one (serviceAccount.create)" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "stowplan.image" -}}
{{- $repository := required "image.repository: name the repository that you have pushed the image to; there is no published one (deploy/README.md says how to build it)" .Values.image.repository -}}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{- define "stowplan.leaseName" -}}
{{- .Values.leaderElection.resourceName | default (include "stowplan.name" .) -}}
{{- end -}}

{{- define "stowplan.leaseNamespace" -}}
{{- .Values.leaderElection.resourceNamespace | default .Release.Namespace -}}
{{- end -}}

{{- define "stowplan.subject" -}}
- kind: ServiceAccount
  name: {{ include "stowplan.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* What would start, and do harm or nothing. */}}
{{- define "stowplan.check" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.leaderElection.enabled) -}}
{{- fail "leaderElection.enabled: more than one replica without leader election would all schedule at once" -}}
{{- end -}}
{{- $clusters := and .Values.leaderElection.enabled (eq (include "stowplan.leaseName" .) "kube-scheduler") (eq (include "stowplan.leaseNamespace" .) "kube-system") -}}
{{- $names := list -}}
{{- range .Values.profiles -}}{{- $names = append $names (.schedulerName | default "default-scheduler") -}}{{- end -}}
{{- if not .Values.profiles -}}{{- $names = append $names .Values.schedulerName -}}{{- end -}}
{{- if and (has "default-scheduler" $names) (not $clusters) -}}
{{- fail "a profile named default-scheduler would work against the cluster's own scheduler: give it another name, or share the lease (leaderElection.resourceName: kube-scheduler, leaderElection.resourceNamespace: kube-system)" -}}
{{- end -}}
{{- end -}}

{{- define "stowplan.configuration" -}}
{{- $election := dict "leaderElect" .Values.leaderElection.enabled -}}
{{- if .Values.leaderElection.enabled -}}
{{- $_ := set $election "resourceName" (include "stowplan.leaseName" .) -}}
{{- $_ := set $election "resourceNamespace" (include "stowplan.leaseNamespace" .) -}}
{{- range $key := list "leaseDuration" "renewDeadline" "retryPeriod" -}}
{{- $_ := set $election $key (index $.Values.leaderElection $key) -}}
{{- end -}}
{{- end -}}
{{- $profiles := .Values.profiles | default (list (dict "schedulerName" .Values.schedulerName)) -}}
{{- $whole := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration" "leaderElection" $election "profiles" $profiles -}}
{{- merge $whole .Values.config | toYaml -}}
{{- end -}}
